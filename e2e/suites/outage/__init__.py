"""What users see while Muster, or what it follows, is away, slow or mad, and that all is well again afterwards."""
