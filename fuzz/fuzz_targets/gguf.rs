//! Any bytes as a GGUF file: an error of one line, or a file whose every tensor can be read and whose metadata and
//! tensors survive being written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onetrip_engine::files::{GgufWriter, ModelFile};

fuzz_target!(|bytes: &[u8]| {
    let file = match ModelFile::from_slice("fuzz", bytes) {
        Ok(file) => file,
        Err(e) => {
            assert_eq!(e.to_string().lines().count(), 1, "{e}");
            return;
        }
    };
    assert!(serde_json::to_string(&file.summary()).is_ok());
    let mut writer = GgufWriter::new();
    writer.set_all(file.metadata());
    // An alignment above what the writer pads to (it would write that many zeros) is not written again.
    if file.metadata().get("general.alignment").and_then(|v| v.as_u64()).is_some_and(|n| n > 65536) {
        return;
    }
    for t in file.tensors() {
        let data = file.data(t);
        assert_eq!(data.len(), t.bytes);
        assert_eq!(data.as_ptr().align_offset(8), 0);
        let _ = file.dtype(t).map_err(|e| e.to_string());
        file.release(t);
        writer.tensor(&t.name, &t.dims, t.kind.ggml.unwrap_or(u32::MAX), data).expect("an open tensor can be written");
    }
    let written = writer.to_bytes().expect("what was read can be written");
    let again = ModelFile::from_slice("written", &written).expect("what was written can be read");
    assert_eq!(again.tensors().len(), file.tensors().len());
    for (a, b) in again.tensors().zip(file.tensors()) {
        assert_eq!((&a.name, &a.dims, &a.kind), (&b.name, &b.dims, &b.kind));
        assert!(again.data(a) == file.data(b));
    }
    assert!(again.metadata().keys().eq(file.metadata().keys()));
});
