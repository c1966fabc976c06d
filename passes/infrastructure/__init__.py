"""What a pass is, how it is declared, in what context and order passes run, and who watches."""
