//! The `rlver` command.

mod cli;

fn main() -> std::process::ExitCode {
    rlver_kernels::keep_freed_memory();
    cli::main()
}
