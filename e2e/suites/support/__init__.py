"""What all suites share: kubectl, waiting, one namespace per test, documents, and a hand on Muster itself."""
