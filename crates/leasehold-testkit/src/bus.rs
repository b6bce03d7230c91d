//! The bus of a cluster, by which its nodes talk to each other, as a network that can be cut: every
//! connection leads through a forwarder.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// The forwarders of a number of nodes. They run on their own thread and end with this value.
#[derive(Debug)]
pub(crate) struct Bus {
    ports: Vec<u16>,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

#[derive(Debug)]
struct Shared {
    /// The ports on which nodes listen, by their numbers.
    nodes: Vec<AtomicU16>,
    /// The node that is cut off in both directions.
    cut_off: watch::Sender<Option<usize>>,
}

impl Bus {
    /// Starts a forwarder for each node.
    pub(crate) fn start(nodes: usize) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("bus")
            .enable_all()
            .build()?;
        let nodes_at = (0..nodes).map(|_| AtomicU16::default()).collect();
        let shared = Arc::new(Shared { nodes: nodes_at, cut_off: watch::Sender::default() });
        let mut ports = Vec::new();
        for to in 0..nodes {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            ports.push(listener.local_addr()?.port());
            runtime.spawn(accept(listener, to, Arc::clone(&shared)));
        }
        Ok(Self { ports, shared, runtime: Some(runtime) })
    }

    /// The port at which other nodes reach a node.
    pub(crate) fn port(&self, node: usize) -> u16 {
        self.ports[node]
    }

    /// The address from which a node connects to others, so that the bus knows which node connects.
    pub(crate) fn address(node: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 1, u8::try_from(node).unwrap_or(u8::MAX))
    }

    /// Forwards connections for a node to this port, on which the node listens.
    pub(crate) fn lead_to(&self, node: usize, port: u16) {
        self.shared.nodes[node].store(port, Ordering::Relaxed);
    }

    /// Cuts a node off from all others: no connection lasts, and a new one carries nothing.
    pub(crate) fn cut_off(&self, node: usize) {
        self.shared.cut_off.send_replace(Some(node));
    }

    /// Lets all nodes reach each other again, and returns the node that was cut off.
    pub(crate) fn mend(&self) -> Option<usize> {
        self.shared.cut_off.send_replace(None)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: std::net::TcpListener, to: usize, shared: Arc<Shared>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (caller, from) = listener.accept().await?;
        tokio::spawn(carry(caller, from, to, Arc::clone(&shared)));
    }
}

async fn carry(
    mut caller: TcpStream,
    from: SocketAddr,
    to: usize,
    shared: Arc<Shared>,
) -> io::Result<()> {
    let calls = |node| from.ip() == IpAddr::V4(Bus::address(node));
    let is_cut = |cut_off: &Option<usize>| cut_off.is_some_and(|node| node == to || calls(node));
    let mut cut_off = shared.cut_off.subscribe();
    // This fails only once the bus has ended, and then everything else fails, too.
    let _ = cut_off.wait_for(|cut_off| !is_cut(cut_off)).await;
    let port = shared.nodes[to].load(Ordering::Relaxed);
    let mut node = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    caller.set_nodelay(true)?;
    node.set_nodelay(true)?;
    tokio::select! {
        _ = cut_off.wait_for(is_cut) => {}
        _ = copy_bidirectional(&mut caller, &mut node) => {}
    }
    Ok(())
}
