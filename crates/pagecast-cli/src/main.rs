//! The `pagecast` command.

fn main() {}
