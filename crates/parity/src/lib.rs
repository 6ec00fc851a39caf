//! the one integration-test binary: op x case x device, rules, plan snapshots, whole models
