//! What the operating system says about memory and load; nothing where there is no `/proc`.

/// Most memory this process ever held, in bytes (`VmHWM`).
pub fn peak_rss_bytes() -> Option<u64> {
    kibibytes("/proc/self/status", "VmHWM:")
}

/// Memory that can be taken without swapping, in bytes (`MemAvailable`).
pub fn available_bytes() -> Option<u64> {
    kibibytes("/proc/meminfo", "MemAvailable:")
}

/// Mean number of runnable processes over the last minute. More than our own threads means that others disturb.
pub fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

fn kibibytes(path: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
