"""Reports that readers of policy reports show, of both formats, with their real CustomResourceDefinitions."""
