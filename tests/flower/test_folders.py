"""Folders of a federation: settings that are checked, and folders that are told apart."""

import pytest

from fedjigsaw.errors import FederationError
from fedjigsaw.flower import folders, operators


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 1, "kind": []}', '{"format": 2, "kind": "site"}',
     '{"format": 1, "kind": "site", "name": 3, "host": "h", "port": 1, "app": ""}'],
)  # fmt: skip
def test_other_settings_are_refused(clinic, text):
    (clinic / "bern" / "settings.json").write_text(text)
    with pytest.raises(FederationError, match="settings.json"):
        folders.SiteSettings.load(clinic / "bern")


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "", "köln.de"])
def test_a_host_that_is_no_name_is_refused_where_it_is_read(clinic, host):
    """Python would end in a UnicodeError when it connects."""
    operators.add(clinic / "server", "anna")
    for name, of in (
        ("server", folders.ServerSettings),
        ("bern", folders.SiteSettings),
        ("anna", operators.OperatorSettings),
    ):
        path = clinic / name / "settings.json"
        path.write_text(path.read_text().replace("127.0.0.1", host))
        with pytest.raises(FederationError, match=r"settings\.json has no valid 'host'"):
            of.load(clinic / name)
