import warnings

with warnings.catch_warnings():
    # Libraries that these look for warn while they are imported, and no test is about that.
    warnings.simplefilter("ignore")
    import sessions.demo.tiny
    import sessions.engines.trainer  # noqa: F401  # for its sake
