"""`pcpq explore INDEX`: a page on this machine that shows what is in an index, and searches it.

values.py       ids, scores and attributes as JSON
parameters.py   what a page may ask for, checked
projection.py   vectors in two dimensions, by principal components
sample.py       the map: a sample of the vectors, and their colours
searching.py    a search with its results, its work and its measured time
view.py         everything that the page shows, from one open index
guard.py        refuses requests of other sites, and adds the headers of every response
application.py  addresses of the page, its files and its data
server.py       the server, on 127.0.0.1 only
page.html, page.css, *.js, icon.svg   the page itself
"""

from pcpq.explore.view import Queries, View

__all__ = ["Queries", "View"]
