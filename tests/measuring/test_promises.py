"""Shares of a step's operations by format."""

from accelbench.measuring.promises import Products


def test_shares_are_of_operations_and_the_largest_is_first():
    found = Products(flops={"bfloat16": 1, "float32": 3, "float64": 0})
    assert (found.most, found.shares()) == ("float32", {"float32": 0.75, "bfloat16": 0.25})
    assert found.observed() == "matrix products of one step: 75 % in float32, 25 % in bfloat16"


def test_a_coarser_format_is_a_warning_and_a_finer_one_a_note():
    found = Products(flops={"bfloat16": 30, "float32": 68, "float64": 2})
    assert list(found.warnings("float32")) == [
        "30 % of the operations of matrix products ran in bfloat16, not in float32"
    ]
    assert list(found.notes("float32")) == ["2 % of the operations of matrix products ran in float64, not in float32"]
    assert list(Products(flops={"bfloat16": 1, "float32": 999}).warnings("float32")) == []


def test_a_network_without_products_says_so():
    assert (Products().most, Products().shares(), list(Products().warnings("float32"))) == (None, {}, [])
    assert Products().observed() == "one step, which has no matrix products"
