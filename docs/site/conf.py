"""Sphinx's configuration of the site; `docs/site/site_pages.py` has laid out the pages beside this file."""

project = "minitensor"
copyright = "the minitensor authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["LICENSE"]
html_theme = "furo"
html_title = "minitensor"
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
# Everything is in the folder: the site reads no network, and the search works from files too.
html_theme_options = {"source_repository": "", "top_of_page_buttons": []}
html_css_files = ["site.css"]
html_static_path = ["static"]

myst_enable_extensions = ["colon_fence"]
# Links to headings are checked: `flags.md#when-it-is-compiled`.
myst_heading_anchors = 4
# `c`, `sh` and `text` are Pygments' names; what it has no lexer for is shown plain.
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "none"
add_module_names = False
python_display_short_literal_types = True
toc_object_entries = False
