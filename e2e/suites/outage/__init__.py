"""What users see while Muster or the API server is down, slow or wrong, and that everything recovers afterwards."""
