"""Python functions as programs: the front end of loops/."""
