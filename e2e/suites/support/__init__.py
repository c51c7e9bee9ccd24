"""What all suites share: kubectl, waiting, one namespace per test, documents, and control of Muster itself."""
