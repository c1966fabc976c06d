"""Where the values of a program lie on several devices."""
