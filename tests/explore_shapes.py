"""Values that tests of `pcpq explore` share."""

HOSTILE = "<img src=x onerror=\"alert('x')\"><script>alert(1)</script>"
LARGE = 2**63 - 1  # an id that a browser would round
