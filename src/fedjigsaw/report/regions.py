"""Describe the summary of a region: which sites it stands for, and what it says about them."""

from collections.abc import Iterator
from dataclasses import replace

from fedjigsaw.errors import counted
from fedjigsaw.io.regions import is_region, own_tensors, region_of
from fedjigsaw.messages import Summary


def without_region(summary: Summary) -> Summary:
    """Return a summary without the tensors that say what the sites of a region sent."""
    return replace(summary, tensors=own_tensors(summary)) if is_region(summary) else summary


def describe_region(summary: Summary, most: int) -> Iterator[str]:
    """Describe the sites of a region; nothing for the summary of a site."""
    if not is_region(summary):
        return
    region = region_of(summary)
    sites = [f"{name} ({counted(rows, 'row')})" for name, rows in sorted(region.sites.items())]
    listed = ", ".join(sites[:most]) + (f", and {len(sites) - most} more" * (len(sites) > most))
    yield f"It is a region of {counted(len(sites), 'site')}: {listed}."
    if region.members is not None:
        yield "Their summaries are in it as they are, with their names: the next level sees each."
        return
    yield "Centers of its sites were merged: the next level cannot tell which site has which."
    if region.model is not None:
        clusters = counted(len(region.model.centers), "cluster")
        yield f"Its own model, of {clusters}, is in it, with what it says of sites."
