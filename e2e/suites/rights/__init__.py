"""Each right of Muster's roles: taken away, what fails; given back, it works."""
