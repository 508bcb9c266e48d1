use rlver::metrics::{EventWriter, Metrics, crc32c};

/// A protobuf field: its number and what it holds.
#[derive(Debug, PartialEq)]
enum Field<'a> {
    Varint(u8, u64),
    Fixed64(u8, f64),
    Bytes(u8, &'a [u8]),
    Fixed32(u8, f32),
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, rest) = bytes.split_at(count);
    *bytes = rest;
    head
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = take(&mut bytes, 1)[0];
        let number = tag >> 3;
        fields.push(match tag & 7 {
            0 => Field::Varint(number, varint(&mut bytes)),
            1 => Field::Fixed64(number, f64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut bytes) as usize;
                Field::Bytes(number, take(&mut bytes, length))
            }
            5 => Field::Fixed32(number, f32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap())),
            other => panic!("wire type {other}"),
        });
    }
    fields
}

/// The data of each record, once both of its checksums are right.
fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
    let masked = |data: &[u8]| {
        let crc = crc32c(data);
        crc.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
    };
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let length = take(&mut bytes, 8);
        assert_eq!(take(&mut bytes, 4), masked(length));
        let data = take(&mut bytes, u64::from_le_bytes(length.try_into().unwrap()) as usize);
        assert_eq!(take(&mut bytes, 4), masked(data));
        frames.push(data);
    }
    frames
}

#[test]
fn the_checksum_has_its_published_values() {
    // The standard check value, and RFC 3720, appendix B.4.
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(b""), 0);
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
}

#[test]
fn scalars_come_back_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = EventWriter::create(folder.path().join("tensorboard")).unwrap();
    let mut metrics = Metrics::new(300);
    metrics.insert("emotion/mean", 41.5);
    metrics.insert("policy/loss", f64::NAN);
    writer.scalars(&metrics).unwrap();
    assert!(writer.path().file_name().unwrap().to_str().unwrap().starts_with("events.out.tfevents."));

    let bytes = std::fs::read(writer.path()).unwrap();
    let frames = frames(&bytes);
    let [version, scalars] = &frames[..] else { panic!("{} records", frames.len()) };
    let version = fields(version);
    assert!(matches!(version[0], Field::Fixed64(1, time) if time > 1.7e9));
    assert_eq!(version[1..], [Field::Varint(2, 0), Field::Bytes(3, b"brain.Event:2")]);
    let scalars = fields(scalars);
    assert_eq!(scalars[1], Field::Varint(2, 300));
    let Field::Bytes(5, summary) = scalars[2] else { panic!("{scalars:?}") };
    let values: Vec<_> = fields(summary)
        .into_iter()
        .map(|value| match value {
            Field::Bytes(1, value) => fields(value),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(values[0], [Field::Bytes(1, b"emotion/mean"), Field::Fixed32(2, 41.5)]);
    assert_eq!(values[1][0], Field::Bytes(1, b"policy/loss"));
    assert!(matches!(values[1][1], Field::Fixed32(2, value) if value.is_nan()));
}

#[test]
fn a_resumed_run_adds_a_file_that_supersedes_later_steps() {
    let folder = tempfile::tempdir().unwrap();
    let first = EventWriter::create(folder.path()).unwrap();
    let before = std::fs::read(first.path()).unwrap();
    let second = EventWriter::resume(folder.path(), 17).unwrap();
    assert!(second.path().file_name() > first.path().file_name(), "readers order files by name");
    assert_eq!(std::fs::read(first.path()).unwrap(), before);
    let bytes = std::fs::read(second.path()).unwrap();
    // SessionLog with status START.
    assert_eq!(fields(frames(&bytes)[1])[1..], [Field::Varint(2, 17), Field::Bytes(7, &[8, 1])]);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let message = EventWriter::create(file.path().join("tensorboard")).unwrap_err().to_string();
    assert!(message.starts_with("cannot create ") && message.contains("tensorboard"), "{message}");
}
