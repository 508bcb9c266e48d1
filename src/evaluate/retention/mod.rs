//! What a policy still knows after training: mathematics with exact answers, instructions a program can check, and
//! programs with inputs and outputs, as in RLVER's Table 2. Sets in the published JSONL formats of MATH-500, IFEval and
//! LiveCodeBench are read; small ones of our own ship with the binary. Programs are run only by a [`CodeRunner`], which
//! nobody makes but who asks for it.

mod answer;
mod code;
mod instruction;
mod item;
mod set;

pub use answer::{final_answer, normalise, same_answer};
pub use code::{Case, CodeError, CodeRunner, program};
pub use instruction::{Instruction, InstructionError};
pub use item::{Answered, Item, Task};
pub use set::{RetentionError, RetentionScore, RetentionSet};
