// Empty: cargo heeds build dependencies only where there is a build script.
fn main() {}
