"""`polyadic export`: a model as a graph of ONNX, which predicts without Python."""

from __future__ import annotations

import click

from polyadic.cli.errors import Mistake, as_user_errors
from polyadic.cli.options import force_option
from polyadic.cli.outputs import check_output

_FILE = click.Path(exists=True, dir_okay=False)


@click.command()
@click.argument("model", type=_FILE)
@click.option("--out", default="model.onnx", show_default=True, help="File to write.")
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32"]),
    default="float64",
    show_default=True,
    help="Precision of the numbers that go in and come out.",
)
@click.option(
    "--std/--no-std",
    default=None,
    help="Give standard deviations of numbers too, which takes several times as long to compute; "
    "the default where the model knows them.",
)
@force_option
@as_user_errors
def export(model: str, out: str, dtype: str, std: bool | None, force: bool) -> None:
    """Write MODEL as a graph of ONNX, which predicts without Python."""
    if not out.lower().endswith(".onnx"):
        raise Mistake(f"--out {out} must end in .onnx: graphs are written in this format.")
    check_output(out, [model], force)
    from polyadic.cli.tables import cut
    from polyadic.cli.tasks import require_std
    from polyadic.cli.training import open_model
    from polyadic.export import to_onnx

    fitted = open_model(model)
    if std:
        require_std(fitted.task)
    graph = to_onnx(fitted.model, out, dtype=dtype, return_std=std is not False).graph
    for what, values in (("takes", graph.input), ("gives", graph.output)):
        click.echo(f"{what} {cut([each.name for each in values])}")
    click.echo(f"Wrote {out}.")
