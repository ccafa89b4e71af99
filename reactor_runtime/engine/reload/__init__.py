"""Hot reload: execute the changed modules of a project again, and give the running model their classes."""
