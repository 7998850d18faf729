// Mkimage makes the container image from files that are already built, so that the same files give the same image ID.
//
// It needs no container runtime and no base image: the image is one layer with the daemon, five files of data, the
// licences and a few empty directories. The archive that it writes is a Docker archive (docker load, podman load) and
// an OCI layout (skopeo copy oci-archive:...) at once. The same tree can be laid out as files, which is how
// images/Dockerfile gets it, and the contents of any archive that docker save wrote can be listed, to compare the two.
//
// It does not build the daemon, fetch anything or talk to a registry. It never follows a symbolic link.
//
// Needs: read access to its inputs; root for `rootfs`, which gives files away. What it reads is the repository and the
// build host's certificates: an attacker who controls those controls the image. What is checked is what goes wrong by
// accident: a daemon that needs a loader, a certificate file with something else in it, a file too many or too few.
package main
