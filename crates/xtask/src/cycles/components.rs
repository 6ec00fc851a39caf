//! Strongly connected components and shortest cycles of a directed graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Each node with its successors.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// The strongly connected components of more than one node, in the order of their first nodes.
pub fn components(graph: &Graph) -> Vec<BTreeSet<String>> {
    let mut left: BTreeSet<&String> = graph.keys().collect();
    let backwards = reversed(graph);
    let mut found = vec![];
    while let Some(first) = left.pop_first() {
        // A component is the nodes that are reachable from `first` and from which it is reachable.
        let before = reached(&backwards, first);
        let both: BTreeSet<String> = reached(graph, first).intersection(&before).cloned().collect();
        left.retain(|node| !both.contains(*node));
        if both.len() > 1 {
            found.push(both);
        }
    }
    found
}

fn reversed(graph: &Graph) -> Graph {
    let mut out: Graph = graph.keys().map(|node| (node.clone(), BTreeSet::new())).collect();
    for (from, to) in graph.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
        out.entry(to.clone()).or_default().insert(from.clone());
    }
    out
}

/// All nodes that are reachable from `first`, itself included.
fn reached(graph: &Graph, first: &str) -> BTreeSet<String> {
    let (mut seen, mut next) = (BTreeSet::from([first.to_owned()]), vec![first]);
    while let Some(node) = next.pop() {
        for to in graph.get(node).into_iter().flatten() {
            if seen.insert(to.clone()) {
                next.push(to);
            }
        }
    }
    seen
}

/// The shortest cycle inside a component (the first of several), with its first node repeated at the end.
pub fn circle(graph: &Graph, component: &BTreeSet<String>) -> Vec<String> {
    component.iter().filter_map(|node| round(graph, node)).min_by_key(Vec::len).unwrap_or_default()
}

fn round(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for to in graph.get(node).into_iter().flatten() {
            if to == start {
                let mut way = vec![start.to_owned(), node.to_owned()];
                let mut at = node;
                while at != start {
                    at = came_from[at];
                    way.push(at.to_owned());
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(to.as_str()) {
                came_from.insert(to, node);
                queue.push_back(to);
            }
        }
    }
    None
}
