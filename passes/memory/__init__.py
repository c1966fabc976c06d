"""What is kept from the forward program for the backward one."""
