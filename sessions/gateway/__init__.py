"""The Gateway: HTTP and protobuf, and nothing else; what it is asked goes into the journal, and `runs` does it."""
