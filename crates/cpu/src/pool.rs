//! The thread pool: workers (the calling thread is one of them) that run one job together and share a barrier.
//!
//! A decode step has about a hundred fork–join barriers, so each must take no more than about a microsecond. Therefore workers
//! spin at a barrier, and between jobs they spin for a short time before they sleep. (A fork–join of a work-stealing pool was
//! measured at 3 to
//! 8 µs with two threads.)

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use onetrip_ir::cpu::scratch::Scratch;

/// How long a worker spins for the next job before it sleeps.
const SPIN: Duration = Duration::from_micros(300);

/// Number of spins at a barrier after which a waiting worker yields its processor once.
const SPINS_BEFORE_YIELD: u32 = 1 << 9;

/// The function that every worker of a job runs; it gets the worker's number, its scratch memory and the barrier.
pub type Job<'a> = dyn Fn(usize, &mut Scratch, &Barrier) + Sync + 'a;

/// A barrier for a fixed number of workers.
pub struct Barrier {
    workers: usize,
    arrived: AtomicUsize,
    generation: AtomicU64,
}

impl Barrier {
    fn new(workers: usize) -> Barrier {
        Barrier { workers, arrived: AtomicUsize::new(0), generation: AtomicU64::new(0) }
    }

    /// Returns when all workers have reached the barrier. Their earlier writes are visible to all of them afterwards.
    pub fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.workers == 1 {
            self.generation.store(generation + 1, Ordering::Relaxed);
            return;
        }
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.workers {
            self.arrived.store(0, Ordering::Relaxed);
            self.generation.store(generation + 1, Ordering::Release);
            return;
        }
        let mut spins = 0u32;
        while self.generation.load(Ordering::Acquire) == generation {
            spins += 1;
            if spins.is_multiple_of(SPINS_BEFORE_YIELD) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// A job as the workers see it. Its lifetime is erased, which is sound because `run` returns only when all workers have
/// finished it.
#[derive(Clone, Copy)]
struct JobPtr(*const Job<'static>);

// SAFETY: the job is Sync, and `Pool::run` keeps it alive until every worker has finished it.
unsafe impl Send for JobPtr {}

struct Shared {
    /// Number of the newest job.
    epoch: AtomicU64,
    job: Mutex<(u64, Option<JobPtr>)>,
    wake: Condvar,
    sleeping: AtomicUsize,
    finished: AtomicUsize,
    failed: AtomicBool,
    stop: AtomicBool,
    barrier: Barrier,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread pool.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    scratch: Scratch,
    jobs: u64,
}

impl Pool {
    /// A pool of `workers`, the caller included.
    pub fn new(workers: usize) -> std::io::Result<Pool> {
        let workers = workers.max(1);
        let shared = Arc::new(Shared {
            epoch: AtomicU64::new(0),
            job: Mutex::new((0, None)),
            wake: Condvar::new(),
            sleeping: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            barrier: Barrier::new(workers),
        });
        let mut pool = Pool { shared, threads: vec![], scratch: Scratch::default(), jobs: 0 };
        for n in 1..workers {
            let shared = pool.shared.clone();
            let thread =
                std::thread::Builder::new().name(format!("onetrip-cpu-{n}")).spawn(move || work(n, &shared))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    /// Jobs that were run so far.
    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    /// Number of completed barriers so far, in all jobs.
    pub fn barriers(&self) -> u64 {
        self.shared.barrier.generation.load(Ordering::Acquire)
    }

    /// Runs a job on all workers and returns when all are done. Panics if the job panicked on any of them.
    pub fn run(&mut self, job: &Job) {
        self.jobs += 1;
        let s = &*self.shared;
        if !self.threads.is_empty() {
            s.finished.store(0, Ordering::Relaxed);
            // SAFETY: only the lifetime changes; this function waits below until every worker has finished the job.
            let erased = JobPtr(unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(job) });
            {
                let mut slot = lock(&s.job);
                *slot = (slot.0 + 1, Some(erased));
                s.epoch.store(slot.0, Ordering::Release);
            }
            if s.sleeping.load(Ordering::SeqCst) > 0 {
                s.wake.notify_all();
            }
        }
        let own = catch_unwind(AssertUnwindSafe(|| job(0, &mut self.scratch, &s.barrier)));
        let mut spins = 0u32;
        while s.finished.load(Ordering::Acquire) < self.threads.len() {
            spins += 1;
            if spins.is_multiple_of(SPINS_BEFORE_YIELD) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        if let Err(panic) = own {
            std::panic::resume_unwind(panic);
        }
        assert!(!s.failed.swap(false, Ordering::Relaxed), "a worker of the CPU pool panicked");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(lock(&self.shared.job));
        self.shared.wake.notify_all();
        for t in self.threads.drain(..) {
            // A worker's panic was reported by `run` already.
            let _ = t.join();
        }
    }
}

fn work(n: usize, s: &Shared) {
    let mut scratch = Scratch::default();
    let mut seen = 0;
    while let Some((epoch, job)) = next_job(s, seen) {
        seen = epoch;
        // SAFETY: `Pool::run` waits for `finished` before the job goes away.
        let job = unsafe { &*job.0 };
        if catch_unwind(AssertUnwindSafe(|| job(n, &mut scratch, &s.barrier))).is_err() {
            s.failed.store(true, Ordering::Relaxed);
        }
        s.finished.fetch_add(1, Ordering::Release);
    }
}

/// Waits for a job newer than `seen`; none when the pool ends.
fn next_job(s: &Shared, seen: u64) -> Option<(u64, JobPtr)> {
    let start = Instant::now();
    let mut spins = 0u32;
    loop {
        if s.stop.load(Ordering::Relaxed) {
            return None;
        }
        if s.epoch.load(Ordering::Acquire) != seen {
            break;
        }
        spins += 1;
        if spins.is_multiple_of(1024) && start.elapsed() > SPIN {
            let mut slot = lock(&s.job);
            s.sleeping.fetch_add(1, Ordering::SeqCst);
            while slot.0 == seen && !s.stop.load(Ordering::SeqCst) {
                slot = s.wake.wait(slot).unwrap_or_else(PoisonError::into_inner);
            }
            s.sleeping.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        std::hint::spin_loop();
    }
    let slot = lock(&s.job);
    slot.1.map(|job| (slot.0, job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_runs_every_job_and_the_barrier_orders_them() {
        for workers in [1, 2, 3, 5] {
            let mut pool = Pool::new(workers).expect("threads");
            let a = AtomicUsize::new(0);
            for round in 0..200 {
                let bad = AtomicUsize::new(0);
                pool.run(&|_, _, barrier| {
                    for step in 1..=5 {
                        a.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        if a.load(Ordering::Relaxed) != (round * 5 + step) * workers {
                            bad.fetch_add(1, Ordering::Relaxed);
                        }
                        barrier.wait();
                    }
                });
                assert_eq!(bad.into_inner(), 0, "{workers} workers, round {round}");
                assert_eq!((pool.jobs(), pool.barriers()), (round as u64 + 1, 10 * (round as u64 + 1)));
                if round % 50 == 0 {
                    std::thread::sleep(Duration::from_millis(2)); // Long enough for the workers to sleep.
                }
            }
        }
    }

    #[test]
    fn a_panic_on_a_worker_reaches_the_caller_and_the_pool_lives_on() {
        let mut pool = Pool::new(2).expect("threads");
        let run = catch_unwind(AssertUnwindSafe(|| pool.run(&|n, _, _| assert!(n != 1, "worker's own"))));
        assert!(run.is_err());
        let count = AtomicUsize::new(0);
        pool.run(&|_, _, _| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 2);
    }
}
