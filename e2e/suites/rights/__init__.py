"""Each right of Muster's roles: what fails when it is taken away, and that it works when it is given back."""
