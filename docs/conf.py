"""Configuration of the documentation site. `make site` builds it, offline, into build/site."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS / "_ext"))

import fedjigsaw  # noqa: E402

project = "fedjigsaw"
author = "the fedjigsaw developers"
copyright = author  # noqa: A001
version = release = fedjigsaw.__version__

GALLERY = ROOT / "examples" / "gallery"  # scripts that make one picture each

extensions = [
    "myst_parser",  # pages in Markdown
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "repository",
    *(["sphinx_gallery.gen_gallery"] if GALLERY.is_dir() else []),
]
exclude_patterns = ["_*", "gallery/*.ipynb"]
templates_path = ["_templates"]
default_role = "literal"  # `name` in a docstring is code
smartquotes = False  # -- begins an option

# ------------------------------------------------------------------------------------------ pages

myst_heading_anchors = 4  # the anchors that GitHub makes
myst_enable_extensions = ["colon_fence"]

# What a reader types into the search -> the page that comes first. (Entries of the general index;
# the search puts pages with such an entry before those that only use the word.)
repository_search = {
    "start": ["start", "getting started"],
    "sites": ["file workflow", "summarize", "guard"],
    "tables": ["messy tables", "missing values", "categories"],
    "schema": ["units"],
    "formats": ["parquet", "csv", "excel", "npy", "file formats", "safetensors"],
    "privacy": ["privacy", "differential privacy", "epsilon", "noise"],
    "security": ["security", "threat model", "attacks", "gdpr"],
    "number-of-clusters": ["k unknown", "unknown k", "number of clusters", "choose k", "auto"],
    "idea": ["feca", "one-shot", "paper"],
    "jigsaw": ["jigsaw"],
    "deepfeca": ["deepfeca", "images"],
    "federation": ["federation", "network", "flower"],
    "operations": ["operation", "docker", "systemd", "exit codes", "backup"],
    "over-time": ["drift", "mlflow"],
    "compare": ["compare", "latex", "baselines"],
    "own-method": ["own method", "plugin", "register"],
    "splits": ["splits", "dirichlet", "partition"],
    "scikit-learn": ["scikit-learn", "pipeline", "sparse", "sample_weight"],
    "performance": ["speed", "memory"],
    "scale": ["dask", "parallel"],
    "report": ["report", "html"],
    "commands": ["commands", "command line", "cli"],
}

# -------------------------------------------------------------------------------------------- API

autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"  # fit(), not Jigsaw.fit(), beside the page
python_use_unqualified_type_names = True
numpydoc_show_class_members = False  # the template of a class shows them

# ---------------------------------------------------------------------------------------- gallery

sphinx_gallery_conf = {
    "examples_dirs": str(GALLERY),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # execute all
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,  # a page with scripts of other hosts
    "remove_config_comments": True,
    "backreferences_dir": None,
    "doc_module": (),
}

# ------------------------------------------------------------------------------------------- HTML

html_theme = "pydata_sphinx_theme"
html_title = "fedjigsaw"
html_baseurl = ""
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/logo.svg"
html_math_renderer = "mathml"  # MathJax would be fetched from another host
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "project/changelog": []}
html_theme_options = {
    "logo": {
        "text": "fedjigsaw",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "article_header_start": ["breadcrumbs"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
