"""Fill the templates of pages."""

from importlib.util import find_spec

from fedjigsaw.errors import ExtraError, requires_extra
from fedjigsaw.report.page.view import Absent, ReportPage


def check_installed() -> None:
    """Check, before the work starts, that pages can be made."""
    if find_spec("jinja2") is None or find_spec("matplotlib") is None:
        raise ExtraError(requires_extra("A report", "Jinja2 and matplotlib", "report"))


def render_page(page: ReportPage) -> bytes:
    """Return a page as one HTML file. The same page gives the same bytes."""
    check_installed()
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("fedjigsaw.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["absent"] = lambda part: isinstance(part, Absent)
    return environment.get_template("report.html").render(page=page).encode()
