//! Ways to the network and to the host's sockets.

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

use super::super::super::raw::attack::{Scratch, send_to_unix_path};
use super::*;

fn socket(domain: i32, kind: i32, protocol: i32) -> [u64; 6] {
    [domain as u64, kind as u64, protocol as u64, 0, 0, 0]
}

#[test]
fn none_makes_no_socket_of_any_family() {
    let families = [
        (libc::AF_INET, libc::SOCK_STREAM, 0),
        (libc::AF_INET, libc::SOCK_DGRAM, 0),
        (libc::AF_INET, libc::SOCK_STREAM, 262),
        (libc::AF_INET6, libc::SOCK_STREAM, 0),
        (libc::AF_INET6, libc::SOCK_DGRAM, 0),
        (libc::AF_UNIX, libc::SOCK_STREAM, 0),
        (libc::AF_UNIX, libc::SOCK_DGRAM, 0),
        (libc::AF_NETLINK, libc::SOCK_RAW, 0),
        (libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        (libc::AF_INET, libc::SOCK_RAW, 1),
        (libc::AF_PACKET, libc::SOCK_RAW, 0),
        (libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
    ];
    for (domain, kind, protocol) in families {
        // Raw sockets of a user fail with EPERM, absent families with EAFNOSUPPORT: not with the filter's answer.
        refused(&strict(), libc::SYS_socket, socket(domain, kind, protocol), EACCES);
    }
}

#[test]
fn inherited_sockets_cannot_be_connected_bound_or_listened_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let fresh = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let fd = fresh.as_raw_fd() as u64;
    // struct sockaddr_in of 127.0.0.1.
    let mut address = [0_u8; 16];
    address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 1]);
    let there = address.as_ptr() as u64;
    refused(&strict(), libc::SYS_connect, [fd, there, 16, 0, 0, 0], EACCES);
    refused(&strict(), libc::SYS_bind, [fd, there, 16, 0, 0, 0], EACCES);
    refused(&strict(), libc::SYS_listen, [listener.as_raw_fd() as u64, 1, 0, 0, 0, 0], EACCES);
    refused(&strict(), libc::SYS_accept4, [fd, 0, 0, 0, 0, 0], EACCES);
    refused(&strict(), libc::SYS_sendto, [fd, there, 4, 0, there, 16], EACCES);
    let fast_open = libc::MSG_FASTOPEN as u64;
    refused(&strict(), libc::SYS_sendto, [fd, there, 4, fast_open, there, 16], EACCES);
}

/// A message to a listening datagram socket by path, from a pair of the given kind: what it takes to reach syslog,
/// systemd's notify socket, or any other datagram service.
#[test]
fn a_datagram_pair_cannot_reach_the_hosts_sockets_under_any_mode() {
    let scratch = Scratch::new("datagram");
    let path = scratch.0.join("socket");
    let service = UnixDatagram::bind(&path).unwrap();
    service.set_nonblocking(true).unwrap();
    let networks =
        [Network::None, Network::Unix, Network::Internet { unix: false }, Network::Internet { unix: true }];
    // unix_create turns SOCK_RAW into a datagram socket; flags in the type change nothing.
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC] {
        let attack = || {
            let mut pair = [0_i32; 2];
            let args = [libc::AF_UNIX as u64, kind as u64, 0, pair.as_mut_ptr() as u64, 0, 0];
            if syscall(libc::SYS_socketpair, args).is_err() {
                return 0;
            }
            i32::from(send_to_unix_path(pair[0], &path).is_ok())
        };
        assert_eq!(in_child(Who::Same, attack), Ended::Exited(1), "the attack itself, kind {kind}");
        assert!(service.recv(&mut [0; 16]).is_ok());
        for network in networks {
            let filtered = in_child(Who::Same, || {
                filter(&Options { network, ..strict() });
                attack()
            });
            assert_eq!(filtered, Ended::Exited(0), "kind {kind}, {network:?}");
            assert!(service.recv(&mut [0; 16]).is_err());
        }
    }
}

#[test]
fn a_stream_or_packet_pair_works_and_reaches_nobody() {
    let scratch = Scratch::new("stream");
    let path = scratch.0.join("socket");
    let _service = UnixDatagram::bind(&path).unwrap();
    for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK] {
        let ended = in_child(Who::Same, || {
            filter(&strict());
            let mut pair = [0_i32; 2];
            let args = [libc::AF_UNIX as u64, kind as u64, 0, pair.as_mut_ptr() as u64, 0, 0];
            syscall(libc::SYS_socketpair, args).unwrap();
            let text = c"hello".as_ptr() as u64;
            assert_eq!(syscall(libc::SYS_sendto, [pair[0] as u64, text, 5, 0, 0, 0]), Ok(5));
            let mut got = [0_u8; 8];
            let buffer = got.as_mut_ptr() as u64;
            assert_eq!(syscall(libc::SYS_recvfrom, [pair[1] as u64, buffer, 8, 0, 0, 0]), Ok(5));
            // A packet pair ignores the name and delivers to its other end; a stream refuses it.
            let named = send_to_unix_path(pair[0], &path);
            let delivered = syscall(libc::SYS_recvfrom, [pair[1] as u64, buffer, 8, 0x40, 0, 0]);
            i32::from(named.is_ok() != delivered.is_ok())
        });
        assert_eq!(ended, Ended::Exited(0), "kind {kind}");
    }
}

#[test]
fn host_opens_internet_sockets_only() {
    let host = Options { network: Network::Internet { unix: false }, ..strict() };
    for domain in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK] {
            works(&host, libc::SYS_socket, socket(domain, kind, 0));
        }
    }
    refused(&host, libc::SYS_socket, socket(libc::AF_UNIX, libc::SOCK_STREAM, 0), EACCES);
    refused(&host, libc::SYS_socket, socket(libc::AF_NETLINK, libc::SOCK_RAW, 0), EACCES);
    refused(&host, libc::SYS_socket, socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0), EACCES);
    refused(&host, libc::SYS_socket, socket(libc::AF_INET, libc::SOCK_RAW, 1), EACCES);
    let listed = Options { network: Network::Internet { unix: true }, ..strict() };
    works(&listed, libc::SYS_socket, socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0));
    works(&listed, libc::SYS_socket, socket(libc::AF_INET6, libc::SOCK_DGRAM, 17));
    refused(&listed, libc::SYS_socket, socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0), EACCES);
    refused(&listed, libc::SYS_socket, socket(libc::AF_UNIX, libc::SOCK_RAW, 0), EACCES);
    works(&host, libc::SYS_socket, socket(libc::AF_INET, libc::SOCK_STREAM, 6));
}
