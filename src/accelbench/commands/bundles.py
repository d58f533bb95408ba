"""`accelbench bundle`, `verify` and `replay`: records to give away, what they show, and whether it holds here."""

from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import BUDGET, Command, Context, budget_in_s, flag
from accelbench.commands.records import FOLDER, default_folder
from accelbench.errors import UserError, writing_errors
from accelbench.project import PARAMS, RESULTS, Workplace, workplace
from accelbench.schema.record import listed

LOCK = "requirements.lock"
REPLAYED = """\
Measures the cells of the first claims in 5 fresh processes each, interleaved.
  holds         this setting is faster than that, or as fast, here too
  by less       it is, surely by less than claimed; by more
  same          the speed is as claimed, on an equal machine; faster, slower
  not measured  this machine lacks what it takes, or you did not allow it
Exit status 1: something is not as claimed, or nothing could be told.
"""


def _bundle(chosen: Namespace, context: Context) -> int:
    from accelbench.bundle.archive import pack, sign, signature_of
    from accelbench.report.read import read_all

    place = workplace()
    folder, out = place.root / (chosen.folder or default_folder(place, context)), Path(chosen.out)
    with writing_errors(chosen.out):
        num = pack(folder, read_all(folder), out, _beside(folder, place))
    context.say(f"Bundle: {out}, {num} files, {out.stat().st_size / 1e3:,.0f} kB")
    if chosen.sign:
        sign(out, Path(chosen.sign))
        context.say(f"Signature: {signature_of(out)}")
    return 0


def _beside(folder: Path, place: Workplace) -> dict[str, Path]:
    """What was asked for, at what costs, with which packages, and the report that was built, by names in the bundle."""
    root = place.project or folder
    report = (root if folder == root / RESULTS else folder) / "report"
    found = {f"project/{name}": root / name for name in (PARAMS, LOCK) if (root / name).is_file()}
    pages = (path for path in sorted(report.rglob("*")) if path.is_file() and not path.is_symlink())
    return found | {f"report/{path.relative_to(report).as_posix()}": path for path in pages}


def _verify(chosen: Namespace, context: Context) -> int:
    from accelbench.bundle.archive import check
    from accelbench.bundle.verify import NOT_SHOWN, verify

    found = verify(Path(chosen.bundle))
    if chosen.key:
        check(Path(chosen.bundle), Path(chosen.key))
        found.shown.append(f"it is signed with the private key of {chosen.key}")
    context.say(*(f"ok      {line}" for line in found.shown))
    context.say(*(f"WRONG   {line}" for line in listed(found.problems)))
    context.say(*(f"note    {line}" for line in found.notes))
    unshown = [line for line in NOT_SHOWN if not (chosen.key and "--key" in line)]
    context.say("", "A bundle can't show:", *(f"- {line}" for line in unshown))
    return 1 if found.problems else 0


def _replay(chosen: Namespace, context: Context) -> int:
    budget_s = budget_in_s(chosen, "5m")
    if not 1 <= chosen.cells <= 100:
        raise UserError(f"--cells {chosen.cells}: should be from 1 to 100")
    from accelbench.bundle.replay import replay
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        return replay(chosen.bundle, chosen.cells, budget_s, context.console, hosts, trusts=chosen.trust)


BUNDLE = Command(
    name="bundle",
    summary="put records and their figures into one archive",
    run=_bundle,
    flags=(
        flag("folder", nargs="?", help=FOLDER),
        flag("--out", metavar="FILE", required=True, help="the archive that is written, such as mine.zip"),
        flag("--sign", metavar="KEY.pem", help="sign it with this private key (elliptic curve), into FILE.sig"),
    ),
    description="On one machine the same records give the same bytes. `accelbench verify FILE` says what it shows.",
)
VERIFY = Command(
    name="verify",
    summary="say whether a bundle is whole, and its figures follow",
    run=_verify,
    flags=(
        flag("--key", metavar="PUBLIC.pem", help="check its signature, in BUNDLE.sig, by this public key"),
        flag("bundle", metavar="BUNDLE", help="a file that `accelbench bundle` wrote"),
    ),
    usage="[--key PUBLIC.pem] BUNDLE",
    description="Nothing of the bundle is run. Exit status 1: something in it is wrong.",
)
REPLAY = Command(
    name="replay",
    summary="measure again here what a bundle claims",
    run=_replay,
    flags=(
        flag("--cells", metavar="N", type=int, default=5, help="cells that are measured, at most (5)"),
        BUDGET,
        flag("--trust", help="also use code and files that cells name, and that are here"),
        flag("bundle", metavar="BUNDLE", help="a file that `accelbench bundle` wrote, or study:003"),
    ),
    usage="[flags] BUNDLE",
    description=REPLAYED,
)
