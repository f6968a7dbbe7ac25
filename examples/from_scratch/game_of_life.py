"""Conway's game of life: a glider gun on a large board, gliders on a torus."""
import numpy as np

GLIDER = [[0, 1, 0],
          [0, 0, 1],
          [1, 1, 1]]
GUN = """
........................O...........
......................O.O...........
............OO......OO............OO
...........O...O....OO............OO
OO........O.....O...OO..............
OO........O...O.OO....O.O...........
..........O.....O.......O...........
...........O...O....................
............OO......................
"""


def step_torus(Z):
    """All eight neighbours by rolling."""
    N = sum(np.roll(np.roll(Z, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i != 0 or j != 0))
    return (N == 3) | (Z & (N == 2))


def step_bounded(Z):
    """In place, with a border of dead cells."""
    N = (Z[0:-2, 0:-2] + Z[0:-2, 1:-1] + Z[0:-2, 2:]
         + Z[1:-1, 0:-2] + Z[1:-1, 2:]
         + Z[2:, 0:-2] + Z[2:, 1:-1] + Z[2:, 2:])
    birth = (N == 3) & (Z[1:-1, 1:-1] == 0)
    survive = ((N == 2) | (N == 3)) & (Z[1:-1, 1:-1] == 1)
    Z[...] = 0
    Z[1:-1, 1:-1][birth | survive] = 1
    return Z


def show(Z):
    return "\n".join("".join("#" if cell else "." for cell in row) for row in Z)


def main(size=24, generations=48, gun_generations=40):
    torus = np.zeros((size, size), dtype=bool)
    torus[1:4, 1:4] = np.array(GLIDER, dtype=bool)
    torus[10:13, 5:8] = np.array(GLIDER).T > 0
    start = torus.copy()
    alive = []
    for _ in range(generations):
        torus = step_torus(torus).astype(bool)
        alive.append(int(torus.sum()))
    rows, columns = np.nonzero(torus)

    gun = np.array([[cell == "O" for cell in line] for line in GUN.split()], dtype=np.uint8)
    board = np.zeros((gun.shape[0] + 20, gun.shape[1] + 4), dtype=np.uint8)
    board[1:1 + gun.shape[0], 2:2 + gun.shape[1]] = gun
    history = [np.count_nonzero(board)]
    for _ in range(gun_generations):
        step_bounded(board)
        history.append(np.count_nonzero(board))

    soup = np.zeros((size + 2, size + 2), dtype=int)
    soup[2:-2, 2:-2] = np.random.default_rng(0).random((size - 2, size - 2)) < 0.4
    same = np.array_equal(step_torus(soup[1:-1, 1:-1])[1:-1, 1:-1], step_bounded(soup.copy())[2:-2, 2:-2])

    print(show(torus[-8:, -16:]))
    print("cells of the gun:", history[::10])
    return {
        "start": start, "torus": torus, "alive": np.array(alive), "rows": rows, "columns": columns, "board": board,
        "history": np.array(history), "same": same,
    }


if __name__ == "__main__":
    main()
