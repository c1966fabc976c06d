"""The intermediate representation: types, expressions, modules, and what builds, walks and checks them."""
