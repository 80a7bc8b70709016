"""How Sphinx makes the site. `make docs` calls it; warnings are errors."""

import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

from gallery import not_shown  # noqa: E402

import stalegrad  # noqa: E402

project = "stalegrad"
author = "The stalegrad authors"
copyright = "The stalegrad authors"
version = release = stalegrad.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "live_code",
    "offline_math",
]

exclude_patterns = [
    "sg_execution_times.rst",
    "gallery/sg_execution_times.rst",
    "_build",
    "extensions",
    "_generated",
    "_static",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
nitpicky = True
suppress_warnings = ["ref.python"]  # of two classes of one name, in an annotation, either may be linked

# Examples that have been run are kept, those of another size are not: their files are the same, their pictures are not.
SIZE, KEPT = os.environ.get("STALEGRAD_EXAMPLES", "full"), HERE / "gallery" / ".size"
if KEPT.parent.exists() and (KEPT.read_text() if KEPT.exists() else "") != SIZE:
    shutil.rmtree(KEPT.parent)
KEPT.parent.mkdir(exist_ok=True)
KEPT.write_text(SIZE)

# ------------------------------------------------------------------------------------------------------- Markdown

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# ------------------------------------------------------------------------------------------------------- docstrings

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
add_module_names = False
toc_object_entries = False

# ---------------------------------------------------------------------------------------------------------- gallery

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "ignore_pattern": not_shown(HERE.parent / "examples"),
    "within_subsection_order": "gallery.order",
    "backreferences_dir": "_generated/backreferences",
    "doc_module": ("stalegrad",),
    "download_all_examples": False,
    "image_scrapers": ("matplotlib",),
    "min_reported_time": 3600,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "thumbnail_size": (520, 340),
    "copyfile_regex": r".*\.toml",
    "reset_modules": ("matplotlib", "gallery.quiet"),
}

# ------------------------------------------------------------------------------------------------------------- HTML

html_theme = "pydata_sphinx_theme"
html_title = "stalegrad"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["pictures.js"]
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"text": "stalegrad"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
