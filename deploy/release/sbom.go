package release

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"runtime/debug"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes beside a program which modules it was built from, as CycloneDX. They come from the
// program itself, so the list is true.
func writeSBOM(program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	bom := cyclonedx.NewBOM() // without a serial number and a time, which would differ each time
	bom.Metadata = &cyclonedx.Metadata{Component: component(cyclonedx.ComponentTypeApplication, &debug.Module{
		Path: info.Main.Path, Version: version,
	})}
	components := []cyclonedx.Component{
		*component(cyclonedx.ComponentTypeLibrary, &debug.Module{Path: "std", Version: info.GoVersion}),
	}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, *component(cyclonedx.ComponentTypeLibrary, module))
	}
	bom.Components = &components
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(program+".cdx.json", text.Bytes(), 0o644) //nolint:gosec // G306: public
}

func component(kind cyclonedx.ComponentType, module *debug.Module) *cyclonedx.Component {
	url := "pkg:golang/" + module.Path + "@" + module.Version
	return &cyclonedx.Component{Type: kind, BOMRef: url, Name: module.Path, Version: module.Version, PackageURL: url}
}
