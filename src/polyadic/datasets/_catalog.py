"""What is known of each set beforehand: columns, sums, sources and licence."""

from __future__ import annotations

from dataclasses import dataclass

LICENCE = "Creative Commons Attribution 4.0 (CC BY 4.0)"


@dataclass(frozen=True)
class Known:
    """One set of the UCI repository.

    `sums` are the sums of the inputs and of the target: content that adds up to them is
    taken for the set, whatever place it came from.
    """

    title: str
    target: str
    rows: int
    columns: tuple[str, ...]
    sums: tuple[float, ...]
    openml_id: int
    uci_id: int
    citation: str

    @property
    def description(self) -> str:
        """Return the text of ``DESCR``."""
        return (
            f"{self.title}\n{'=' * len(self.title)}\n\n"
            f"{self.rows} rows, {len(self.columns)} inputs: {', '.join(self.columns)}.\n"
            f"Target: {self.target}.\n\n"
            f"Source: UCI Machine Learning Repository, data set {self.uci_id} "
            f"(https://archive.ics.uci.edu/dataset/{self.uci_id}).\n"
            f"{self.citation}\nLicence: {LICENCE}.\n"
        )


CATALOG = {
    "airfoil": Known(
        "Airfoil Self-Noise",
        "scaled sound pressure level, dB",
        1503,
        ("frequency_hz", "angle_deg", "chord_m", "velocity_ms", "thickness_m"),
        (4338230.0, 10193.8, 205.232, 76443.7, 16.74324023, 187628.422),
        44957,
        291,
        "T. Brooks, D. Pope and M. Marcolini, 1989, doi:10.24432/C5VW2C.",
    ),
    "energy": Known(
        "Energy Efficiency",
        "heating load, the first of two targets",
        768,
        (
            "compactness", "surface_area", "wall_area", "roof_area", "height", "orientation",
            "glazing_area", "glazing_distribution",
        ),
        (586.88, 515872.0, 244608.0, 135632.0, 4032.0, 2688.0, 180.0, 2160.0, 17131.93),
        44960,
        242,
        "A. Tsanas and A. Xifara, 2012, doi:10.24432/C51307.",
    ),
    "yacht": Known(
        "Yacht Hydrodynamics",
        "residuary resistance per unit weight of displacement",
        308,
        (
            "buoyancy_position", "prismatic", "length_displacement", "beam_draught", "length_beam",
            "froude",
        ),
        (-733.6, 173.754, 1474.9, 1212.54, 987.7, 88.55, 3232.57),
        42370,
        243,
        "J. Gerritsma, R. Onnink and A. Versluis, 1981, doi:10.24432/C5XG7R.",
    ),
    "concrete": Known(
        "Concrete Compressive Strength",
        "compressive strength, MPa",
        1030,
        (
            "cement", "slag", "fly_ash", "water", "superplasticizer", "coarse_aggregate",
            "fine_aggregate", "age_days",
        ),
        (289602.9, 76112.7, 55814.0, 187014.3, 6390.8, 1002106.5, 796787.9, 47032.0, 36892.5),
        44959,
        165,
        "I.-C. Yeh, 1998, doi:10.24432/C5PK67.",
    ),
    "wine": Known(
        "Wine Quality",
        "quality, 3 to 9",
        6497,
        (
            "fixed_acidity", "volatile_acidity", "citric_acid", "residual_sugar", "chlorides",
            "free_sulfur_dioxide", "total_sulfur_dioxide", "density", "ph", "sulphates", "alcohol",
        ),
        (
            46877.85, 2206.81, 2070.16, 35364.7, 364.052, 198323.0, 751992.5, 6462.54403, 20910.6,
            3451.65, 68165.23, 37802.0,
        ),
        287,
        186,
        "P. Cortez, A. Cerdeira, F. Almeida, T. Matos and J. Reis, 2009, doi:10.24432/C56S3T.",
    ),
}  # fmt: skip
