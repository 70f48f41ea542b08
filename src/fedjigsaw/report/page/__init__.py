"""Internal: pages that people open in a browser, print, or send as an attachment.

A page is one HTML file that needs no network and runs no script. `run` reads the files of a run,
`build` makes plain values of them (`view`), and `render` fills the templates with these.
"""
