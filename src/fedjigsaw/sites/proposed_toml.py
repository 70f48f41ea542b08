"""A proposed schema as a TOML file with comments for the person who edits it."""

from fedjigsaw.io.schemas import schema_to_toml
from fedjigsaw.sites.proposal import Proposal

HEADER = """\
# What the columns mean, the same at all sites: edit this proposal, then send it to all of them.
#
# It was made from the data of one site. It has names of columns, categories that at least
# {min_rows} rows have, and ranges that were rounded outward. It has no value of a single row, no
# rare category and no count. Read it all the same before it leaves.
#
# - Ranges: replace them by what is plausible anywhere. Under differential privacy, they must come
#   from public knowledge (a manual, a law of nature), never from the data.
#   Values outside of a range are refused, or count as missing values (outside = "missing").
# - Columns of kind "ignore" are not used. Delete their blocks, or give them a kind.
# - Names, identifiers and free text must stay "ignore".
# - What each setting means: docs/schema.md.
#
# Next, at every site: fedjigsaw schema check FILE --schema schema.toml

"""


def proposal_to_toml(proposal: Proposal) -> str:
    """Write a proposed schema as TOML; :func:`~fedjigsaw.io.schemas.load_schema` reads it.

    Parameters
    ----------
    proposal : what :func:`propose_schema` found.

    Returns
    -------
    str
        The content of a file, with comments on what was seen.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import proposal_to_toml, propose_schema
    >>> rows = from_array([[50.5], [61.0], [50.5], [72.5]] * 5, ["weight"])
    >>> text = proposal_to_toml(propose_schema(rows))
    >>> print(text[text.index("[columns.weight]") :].strip())
    [columns.weight]
    kind = "number"
    range = [20, 80]
    missing = "mean"
    scale = "standard"
    """
    header = HEADER.format(min_rows=proposal.min_rows)
    comments = {e.column.name: (f"Seen: {e.seen}.", *e.notes) for e in proposal.columns}
    return schema_to_toml(proposal.schema, header=[header.rstrip("\n"), ""], comments=comments)
