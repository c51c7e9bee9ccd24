"""A module of the people who made the image; their programs import it."""

NAME = "team"
