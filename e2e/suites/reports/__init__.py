"""Reports of both formats, with their real CustomResourceDefinitions."""
