//! Pipelines: each kernel text is compiled once and found again by its text. Where the driver supports a pipeline cache,
//! compiled code is kept on disk.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onetrip_ir::kernel::{Access, Text};

/// A compiled kernel.
pub struct Pipeline {
    pub pipeline: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}

/// All compiled kernels, by their text.
pub struct Pipelines {
    by_text: HashMap<Arc<Text>, Arc<Pipeline>>,
    cache: Option<(wgpu::PipelineCache, PathBuf)>,
    is_new: bool,
}

impl Pipelines {
    /// No pipelines yet; compiled code of earlier runs of the program is read from `folder`.
    pub fn new(device: &wgpu::Device, info: &wgpu::AdapterInfo, folder: Option<&Path>) -> Pipelines {
        let file = folder.and_then(|f| Some(f.join(wgpu::util::pipeline_cache_key(info)?)));
        let cache = file.filter(|_| device.features().contains(wgpu::Features::PIPELINE_CACHE)).map(|file| {
            let data = std::fs::read(&file).ok();
            let descriptor = wgpu::PipelineCacheDescriptor { label: None, data: data.as_deref(), fallback: true };
            // SAFETY: the file is written by `save` alone, from `get_data`, under a name made for this adapter and driver;
            // its header is checked, and with `fallback` an unsuitable file counts as empty.
            (unsafe { device.create_pipeline_cache(&descriptor) }, file)
        });
        Pipelines { by_text: HashMap::new(), cache, is_new: false }
    }

    /// The pipeline of a kernel text, compiled on first use; the error is the compiler's message.
    pub fn get(&mut self, device: &wgpu::Device, name: &str, text: &Arc<Text>) -> Result<Arc<Pipeline>, String> {
        if let Some(found) = self.by_text.get(text) {
            return Ok(found.clone());
        }
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let source = wgpu::ShaderSource::Wgsl(text.source.as_str().into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: Some(name), source };
        // SAFETY: naga validates the text as always; only checks at run time are left out. Kernels index
        // within their operands (the cases of every op run with guard bytes), loops end, divisors are not zero.
        let module = unsafe { device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) };
        let entries: Vec<wgpu::BindGroupLayoutEntry> = text
            .access
            .iter()
            .enumerate()
            .map(|(i, access)| wgpu::BindGroupLayoutEntry {
                binding: i as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: *access == Access::Read },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            })
            .collect();
        let layout =
            device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: Some(name), entries: &entries });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some(name),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(name),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some(&text.entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: self.cache.as_ref().map(|(cache, _)| cache),
        });
        if let Some(error) = pollster::block_on(scope.pop()) {
            return Err(error.to_string());
        }
        self.is_new = true;
        let made = Arc::new(Pipeline { pipeline, layout });
        self.by_text.insert(text.clone(), made.clone());
        Ok(made)
    }

    /// Saves the pipeline cache, if anything was compiled since the last call. Errors are ignored, because a missing file only
    /// makes the next start slower.
    pub fn save(&mut self) {
        let Some((cache, file)) = self.cache.as_ref().filter(|_| self.is_new) else { return };
        self.is_new = false;
        let Some(data) = cache.get_data() else { return };
        let Some(folder) = file.parent() else { return };
        // The data is written to a second file that is then renamed, so that no reader sees half of it.
        let part = file.with_extension(format!("{}.part", std::process::id()));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&part, data));
        if written.and_then(|()| std::fs::rename(&part, file)).is_err() {
            let _ = std::fs::remove_file(&part);
        }
    }
}
