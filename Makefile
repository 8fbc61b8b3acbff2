# Two commands do the main things: `make release` builds the static binary, `make test` passes the tests.
PREFIX ?= /usr/local
MUSL := $(shell uname -m)-unknown-linux-musl
HAVE_MUSL := $(shell rustup target list --installed 2>/dev/null | grep -x $(MUSL))
# SQLite is C: it needs a compiler for the same C library (Debian's musl-tools).
MUSL_CC := $(shell command -v musl-gcc || command -v $(shell uname -m)-linux-musl-gcc)

# What a run executes lies side by side: a twentieth of its time. A linker that cannot insert does without.
ifneq ($(shell cc -Wl,--version 2>/dev/null | grep '^GNU ld'),)
RUN_FIRST := -C link-arg=-Wl,-Tbenches/order/run.ld
endif

.PHONY: build test test-kernels release bench order lint fuzz install clean

build:
	cargo build

test:
	cargo test

lint:
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings

# A static binary: on the musl target where rustup has it or can add it (its start-up is a third of glibc's),
# else a static glibc one. The file is target/guardexec either way.
release:
	@if [ -n "$(MUSL_CC)" ] && { [ -n "$(HAVE_MUSL)" ] || rustup target add $(MUSL) >/dev/null 2>&1; }; then \
		cargo rustc --release --target $(MUSL) --bin guardexec -- $(RUN_FIRST) \
			&& cp target/$(MUSL)/release/guardexec target/guardexec; \
	else \
		echo "no musl target or no musl-gcc (musl-tools): building a static glibc binary" >&2; \
		RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --target $$(uname -m)-unknown-linux-gnu \
			&& cp target/$$(uname -m)-unknown-linux-gnu/release/guardexec target/guardexec; \
	fi
	@ls -l target/guardexec

# Boots other kernels under emulation: Landlock ABI 2 and 6 and none, cgroup v2 with its controllers.
test-kernels: release
	tests/kernels/run target/guardexec

bench: release
	benches/run target/guardexec

# After larger changes: which functions a run executes is looked at anew. Takes some minutes.
order:
	CARGO_PROFILE_RELEASE_STRIP=none cargo build --release --target $(MUSL)
	benches/order/record target/$(MUSL)/release/guardexec benches/layers/strict.toml benches/layers/host.toml >target/run.ld
	mv target/run.ld benches/order/run.ld

fuzz:
	cargo test --test fuzz

install: release
	install -D -m 0755 target/guardexec $(DESTDIR)$(PREFIX)/bin/guardexec
	install -D -m 0644 man/guardexec.1 $(DESTDIR)$(PREFIX)/share/man/man1/guardexec.1
	install -D -m 0644 man/guardexec-policy.5 $(DESTDIR)$(PREFIX)/share/man/man5/guardexec-policy.5
	install -D -m 0644 man/guardexec-check.7 $(DESTDIR)$(PREFIX)/share/man/man7/guardexec-check.7
	install -D -m 0755 -t $(DESTDIR)$(PREFIX)/share/guardexec/checks policies/checks/*.py
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/guardexec/checks policies/checks/*.sql policies/checks/*.json policies/checks/*.toml

clean:
	cargo clean
