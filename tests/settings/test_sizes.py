import pytest

from accelbench.errors import UserError
from accelbench.settings import params, suites
from accelbench.settings.suites import parse

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 10)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LAUGHS, "line 5: more than 20,000 values, with every alias written out"),
        (f"a: {'[' * 2000}{']' * 2000}", "line 1: more than 20 brackets within each other"),
        ("\n".join(" " * depth + "a:" for depth in range(40)), "line 21: more than 20 brackets within each other"),
        ("a: &a [1, *a]", "line 1: *a is a part of itself"),
        (f"a: {'x' * 300_000}", "more than 200,000 characters"),
        (repr(LAUGHS), "one value, no mapping"),
        ("a: 1\nb: ${a}", "line 2: ${...} is not replaced here, nor by DVC: use an anchor"),
    ],
    ids=["aliases", "brackets", "indented", "itself", "long", "text", "reference"],
)
def test_a_file_that_would_fill_the_memory_is_refused_before_it_is_constructed(text, told):
    with pytest.raises(UserError) as raised:
        params.check_yaml(text)
    assert told in str(raised.value)


def test_an_ordinary_file_with_anchors_is_accepted():
    params.check_yaml("a: &a {b: [1, 2]}\nc: *a\nd: {<<: *a, e: 1}\nlong: [" + "1, " * 10_000 + "]")


def combinations(*words):
    return suites.check_combinations(map(parse, words))


def test_combinations_are_counted_as_hydra_makes_them():
    ranges = {"0": 1, "[0,1]": 1, "range(0,10)": 10, "range(10,0,-3)": 4, "range(0,1,0.25)": 4, "glob(*)": 1}
    for value, num in {**ranges, "shuffle(range(0,10))": 10, "choice(1,2)": 2}.items():
        assert combinations(f"seed={value}") == num
    assert combinations("seed=0,1,2", "model=mlp,cnn", "mode=infer") == 6
    assert combinations("seed=0,1,2", "seed=0,1") == 2  # the last one wins
    assert combinations("seed=range(0,100)", "batch_size=range(1,101)") == suites.MAX_CELLS


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["seed=range(0,101)", "batch_size=range(1,101)"], "seed (101) x batch_size (100): 10,100 combinations; "),
        (["seed=range(0,1e300)"], "seed (over 1,000,000,000,000): over 1,000,000,000,000 combinations; "),
        (["seed=range(0,1e400)"], "seed=range(0,1e400): a range needs finite bounds, and a step other than 0"),
        (["seed=range(0,5,0)"], "seed=range(0,5,0): a range needs finite bounds, and a step other than 0"),
        (["seed=range(5,5)"], "seed: a range without a value"),
    ],
)
def test_too_many_combinations_are_named_at_once(words, told):
    with pytest.raises(UserError) as raised:
        combinations(*words)
    assert str(raised.value).startswith(told)
