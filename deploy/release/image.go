package release

import (
	"bytes"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// User is the user and group of the image's process. They need no name.
const User = "65532:65532"

// writeImage writes an image for each program of Linux, as a tar of an OCI layout: skopeo, podman, containerd and, over
// containerd, docker load read it. The image is that of container/Dockerfile.
func writeImage(programs map[Platform]string, version, path string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range Platforms {
		program, ok := programs[p]
		if !ok || p.OS != "linux" {
			continue
		}
		image, err := imageOf(p, program)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.OS, Architecture: p.Arch}},
		})
	}
	dir, err := os.MkdirTemp("", "checkout-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	target, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": "checkout:" + version,
		"io.containerd.image.name":          "docker.io/library/checkout:" + version, // as docker load and containerd take it
	})
	if err := target.AppendIndex(index, named); err != nil {
		return err
	}
	files, err := walk(dir, ".")
	if err != nil {
		return err
	}
	content, err := archive(files)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644) //nolint:gosec // G306: public
}

// imageOf returns the image of one program: a single file.
func imageOf(p Platform, program string) (v1.Image, error) {
	content, err := os.ReadFile(program) //nolint:gosec // G304: this package wrote it
	if err != nil {
		return nil, err
	}
	packed, err := archive([]file{{"checkout", 0o755, content}})
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
		tarball.WithMediaType(types.OCILayer),
	)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: p.OS, Architecture: p.Arch, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: User, Entrypoint: []string{"/checkout"}},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}
