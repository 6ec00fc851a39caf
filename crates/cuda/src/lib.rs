pub mod libs; pub mod nvrtc;
