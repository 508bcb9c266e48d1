//! Files that are there whole or not at all.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::Error;

/// Writes a file under a temporary name and moves it into place, so that a full disk or a crash leaves the old one.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<std::fs::File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    let part = path.with_extension("part");
    let result = std::fs::File::create(&part).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()?;
        file.get_ref().sync_all()?;
        std::fs::rename(&part, path)
    });
    result.map_err(|e| {
        let _ = std::fs::remove_file(&part);
        Error::write(path, e)
    })
}

/// Fills a folder under a temporary name and moves it into place, replacing what was there.
pub(super) fn write_folder(path: &Path, fill: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    let part = path.with_extension("part");
    let write = |e| Error::write(path, e);
    if part.exists() {
        std::fs::remove_dir_all(&part).map_err(write)?;
    }
    std::fs::create_dir_all(&part).map_err(write)?;
    if let Err(error) = fill(&part) {
        let _ = std::fs::remove_dir_all(&part);
        return Err(error);
    }
    if path.exists() {
        std::fs::remove_dir_all(path).map_err(write)?;
    }
    std::fs::rename(&part, path).map_err(write)
}
