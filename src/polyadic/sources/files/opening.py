"""Opening rows on disk: which columns are read, and whether they can be."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from polyadic.sources.files.paths import Paths, open_files
from polyadic.sources.files.row_files import DATE, KINDS, NUMBER, TEXT, RowFile, RowsError
from polyadic.sources.files.row_source import RowSource
from polyadic.sources.files.sniff import CsvFormat, check_encoding


def open_rows(
    path: Paths | Sequence[Paths],
    target: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    missing: str = "keep",
    delimiter: str | None = None,
    decimal: str | None = None,
    na: Sequence[str] = (),
    encoding: str | None = None,
    dates: Mapping[str, str] | None = None,
) -> RowSource:
    """Open rows on disk, to pass to ``fit``, ``predict`` and ``score`` in place of X and y.

    Nothing is read but the names and types of the columns.  A fit then reads the files as
    often as it needs to, a batch at a time, so they may be larger than memory; where columns are
    text or dates, a first pass finds their levels.

    Parameters
    ----------
    path : path, or list of paths
        Parquet, CSV, Excel, npy or npz files, by their endings; CSV files may be compressed, and
        of a workbook the first sheet is read.  A folder stands for the files in it
        and in the folders in it, a glob such as ``"rows/*.parquet"`` for those it matches, both
        sorted by name.  A folder in it that is called "year=2020" gives its files a column
        "year".
    target : str or list of str, optional
        Column to predict, or several.  Not needed to predict.  For a classifier it may hold text
        or true and false, which are labels then.
    columns : list of str, optional
        Columns to predict from; by default all but target, weight and an index that pandas
        wrote, which must then be the same in all files.  The columns of an npy file are "x0",
        "x1", ….
    weight : str, optional
        Column with the weight of each row.  Rows of weight 0 do not count in a fit.
    missing : {"keep", "drop", "complete"}, default="keep"
        Gaps in the columns to predict from are kept, and an automatic fit learns from them.  A
        gap in a target or a weight is an error that says where it is, or with "drop" its row is
        left out.  "complete" leaves out rows with a gap or an infinite value in any of these
        columns.  Rows left out are counted in ``n_dropped``, which a fit keeps as
        ``n_samples_dropped_``.
    delimiter : str, optional
        Of CSV files; by default the comma, semicolon, tab or vertical bar that cuts all lines
        into equally many columns.
    decimal : str, optional
        Decimal mark of CSV files; by default a point, or a comma where numbers have one that
        cannot separate thousands, in files that are not delimited by commas.
    na : list of str, optional
        Texts that stand for a missing value in CSV files, besides the empty one, "NA", "nan",
        "null" and their like.  Signs such as "?" between numbers are gaps anyway, and so are
        words such as "unknown" between many different numbers, with a warning.
    encoding : str, optional
        Of CSV files; by default UTF-8, UTF-16 with a byte order mark, or, with a warning,
        Windows-1252.
    dates : mapping of str to str, optional
        How days in columns of CSV files are spelled, such as ``{"sold": "%d/%m/%Y"}``, where
        neither 2020-12-31 nor 31.12.2020 nor a day after the twelfth tells.

    Returns
    -------
    source : RowSource
        Numbers of any type become float64, true and false 1 and 0.  Text is a category, and
        dates are what a data frame's dates are.  Types of CSV files are told from their first
        16 MB.  Errors count the rows of a file from 1, the first under the header.

    Examples
    --------
    >>> import numpy as np, pyarrow, pyarrow.parquet, tempfile
    >>> from polyadic import KernelMachineRegressor, open_rows
    >>> x = np.random.default_rng(0).uniform(size=(2, 1000))
    >>> table = pyarrow.table({"a": x[0], "b": x[1], "y": np.sin(3 * x[0]) * x[1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pyarrow.parquet.write_table(table, f"{folder}/rows.parquet")
    ...     rows = open_rows(f"{folder}/*.parquet", target="y")
    ...     model = KernelMachineRegressor(rank=4, n_basis=4, random_state=0).fit(rows)
    ...     model.n_samples_fit_, model.score(rows) > 0.99
    (1000, True)
    """
    if missing not in ("keep", "drop", "complete"):
        raise ValueError(f"`missing` must be 'keep', 'drop' or 'complete', got {missing!r}.")
    check_encoding(encoding)
    files = open_files(path, CsvFormat(delimiter, decimal, tuple(na), encoding, dates or {}))
    source = select_rows(files, target, columns, weight, missing)
    for remark in source.remarks:
        warnings.warn(remark, UserWarning, stacklevel=2)
    return source


def select_rows(
    files: Sequence[RowFile],
    target: str | Sequence[str] | None,
    columns: Sequence[str] | None,
    weight: str | None,
    missing: str,
) -> RowSource:
    """Return the rows of open files; parameters are those of `open_rows`."""
    targets = [target] if isinstance(target, str) else list(target or ())
    weights = [] if weight is None else [weight]
    others = [*targets, *weights]
    if columns is None:
        names = [name for name in files[0].types if name not in [*others, *files[0].index]]
    elif isinstance(columns, str):
        raise ValueError(f"`columns` must be a list of names, got {columns!r}.")
    else:
        names = list(columns)
    _check_names(files[0], names, others)
    for file in files:
        _check_columns(file, files[0], [*names, *others], exact=columns is None)
    files = _read_alike(files, [*names, *targets])
    for file in files:
        _check_kinds(file, files[0], names, targets, weights)
    return RowSource(files, names, targets, weight, missing, isinstance(target, str))


def _check_names(first: RowFile, names: list[str], others: list[str]) -> None:
    if not names:
        raise ValueError(f"{first.path} has no column to predict from besides {others}.")
    every = [*names, *others]
    for name in every:
        if every.count(name) > 1:
            raise ValueError(
                f"`target`, `columns` and `weight` must name different columns, got {name!r} twice."
            )


def _check_columns(file: RowFile, first: RowFile, names: list[str], *, exact: bool) -> None:
    """Raise unless a file has the columns; and no others, where none were named."""
    for name in names:
        if name not in file.types:
            raise ValueError(
                f"{file.path} has no column {name!r}; it has {', '.join(map(repr, file.types))}."
            )
    extra = [name for name in file.types if name not in [*names, *file.index]]
    if exact and extra:
        raise RowsError(
            f"{file.path} has a column {extra[0]!r} that {first.path} lacks.", "columns"
        )


def _read_alike(files: Sequence[RowFile], names: Sequence[str]) -> list[RowFile]:
    """Return files whose columns are of one kind: what is text in one of them is text in all."""
    kinds = {}
    for name in names:
        found = {file.types[name] for file in files if name not in file.empty}
        if TEXT in found:
            kinds[name] = TEXT
        elif found == {DATE}:
            kinds[name] = DATE
    return [file.read_as(kinds) for file in files]


def _check_kinds(
    file: RowFile,
    first: RowFile,
    names: Sequence[str],
    targets: Sequence[str],
    weights: Sequence[str],
) -> None:
    """Raise an error that names all columns that cannot be used, and what to do about it."""
    wrong: dict[str, list[str]] = {}
    # Text is for classifiers, and all others refuse it.
    allowed = dict.fromkeys(names, KINDS) | dict.fromkeys(targets, (NUMBER, TEXT))
    for name, kinds in (allowed | dict.fromkeys(weights, (NUMBER,))).items():
        if file.types[name] in kinds:
            continue
        remedy = file.remedies.get(name, "columns") if name in names else "target"
        wrong.setdefault(remedy, []).append(file.describe(name))
    if wrong:
        told = [text for texts in wrong.values() for text in texts]
        more = f", and {len(told) - 10} more" if len(told) > 10 else ""
        raise RowsError(
            f"{file.path} has columns that cannot be used: {'; '.join(told[:10])}{more}.", *wrong
        )
    for name in [*names, *targets]:
        here, there = file.types[name], first.types[name]
        if here != there and name not in {*file.empty, *first.empty}:
            raise RowsError(
                f"Column {name!r} of {file.path} is {here}, and {there} in {first.path}.", "columns"
            )
