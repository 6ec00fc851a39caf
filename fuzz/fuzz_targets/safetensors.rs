//! Any bytes as a safetensors file: an error of one line, or a file whose every tensor can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onetrip_engine::files::ModelFile;

fuzz_target!(|bytes: &[u8]| {
    let file = match ModelFile::from_safetensors_slice("fuzz", bytes) {
        Ok(file) => file,
        Err(e) => {
            assert_eq!(e.to_string().lines().count(), 1, "{e}");
            return;
        }
    };
    assert!(serde_json::to_string(&file.summary()).is_ok());
    let mut covered = 0;
    for t in file.tensors() {
        let data = file.data(t);
        assert_eq!(data.len(), t.bytes);
        covered += data.len();
        if let Err(e) = file.dtype(t) {
            assert_eq!(e.to_string().lines().count(), 1, "{e}");
        }
        file.release(t);
    }
    assert!(covered <= bytes.len());
});
