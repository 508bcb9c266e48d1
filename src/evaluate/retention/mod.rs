//! What a policy still knows after training: mathematics with exact answers and instructions a program can check, as in
//! RLVER's Table 2. Sets in the published JSONL formats of MATH-500 and IFEval are read; small ones of our own ship with
//! the binary.

mod answer;
mod instruction;
mod set;

pub use answer::{final_answer, normalise, same_answer};
pub use instruction::{Instruction, InstructionError};
pub use set::{Answered, Item, RetentionError, RetentionScore, RetentionSet, Task};
