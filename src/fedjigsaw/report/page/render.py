"""Fill the templates of pages."""

from fedjigsaw.errors import ExtraError, requires_extra
from fedjigsaw.report.page.view import Absent, ComparisonPage, ReportPage

TEMPLATES = {ReportPage: "report.html", ComparisonPage: "comparison.html"}


def check_installed() -> None:
    """Check, before the work starts, that pages can be made."""
    try:
        import jinja2
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ExtraError(requires_extra("A report", "Jinja2 and matplotlib", "report")) from error
    del jinja2


def render_page(page: ReportPage | ComparisonPage) -> bytes:
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
    return environment.get_template(TEMPLATES[type(page)]).render(page=page).encode()
